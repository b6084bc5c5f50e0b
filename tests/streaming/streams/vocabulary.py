"""What random streams are made of: expressions, windows, gaps, delays, settings."""

from __future__ import annotations

from tests.streaming.streams.case import POOLS

SUMMABLE = ("byte", "short", "int", "long", "float", "double", "small", "large")
LITERALS = {
    "boolean": ("true", "false"),
    "byte": ("1Y", "0Y"),
    "short": ("7S", "0S"),
    "int": ("5", "0"),
    "long": ("42L", "0L"),
    "double": ("1.5D", "0.0D"),
    "date": ("DATE'2013-01-01'",),
    "small": ("0.00BD",),
    "string": ("'a'", "'zz'", "''"),
    "binary": ("X'00'",),
}
# Expressions that keys are made of, with what type they have as far as literals and static tables go.
KEY_EXPRESSIONS = (
    ("k_int % 3", ""),
    ("upper(k_string)", "string"),
    ("k_long IS NULL", "boolean"),
    ("coalesce(k_string, 'none')", "string"),
    ("length(k_string)", "int"),
    ("year(k_date)", "int"),
    ("cast(k_date AS string)", "string"),
    ("k_int > 0 AND k_boolean", "boolean"),
    ("current_date() > DATE'2001-01-01'", "boolean"),
)
STRUCT_KEYS = (
    "struct(k_int, k_string)",
    "named_struct('a', k_double, 'b', struct(k_boolean))",
    "array(k_float, -k_float)",
    "struct(k_small, k_date)",
    "array(k_short)",
    "named_struct('x.y', k_large, 'z z', k_ntz)",
    "struct(k_binary, array(k_string))",
    "make_dt_interval(0, 0, k_short)",
)
CONSTANT_KEYS = ((), (), ("1",), ("'a'",), ("CAST(NULL AS STRING)",), ("true",))
SUBQUERY = "(SELECT max(n) FROM VALUES (1) AS of_table(n))"
FILTERS_OF_FOLDERS = (
    *("p = 0", "p = 1", "p <> 0", "p IS NULL", "p > 5", "b <> 1", "b > 0", "b % 2 = 0 OR p = 1"),
    f"p = {SUBQUERY}",
)
# Values of static tables that are joined above an operator by its keys; of other types `LITERALS` has some.
LITERALS_OF_KEYS = {
    "int": ("5", "0", "-1"),
    "long": ("42L", "0L", "-1L"),
    "float": ("CAST(1.5 AS FLOAT)", "CAST('NaN' AS FLOAT)", "CAST(0 AS FLOAT)"),
    "double": ("1.5D", "0.0D", "double('NaN')", "-0.0D"),
    "timestamp": ("timestamp_micros(0)", "timestamp_micros(-1000000)"),
    "ntz": ("TIMESTAMP_NTZ'1960-01-01 00:00:00'",),
    "small": ("CAST(0 AS DECIMAL(10,2))", "CAST(-1.25 AS DECIMAL(10,2))"),
    "large": ("CAST(7 AS DECIMAL(30,5))", "CAST(0.00001 AS DECIMAL(30,5))"),
}
AGGREGATE_EXPRESSIONS = (
    "sum(v_int) / count(*)",
    "max(v_int) - min(v_short)",
    "sum(v_short) + 1",
    "count(*) * 2 + count(v_string)",
    "coalesce(sum(v_small), 0)",
    "if(count(v_int) > 1, max(v_string), NULL)",
    "sum(v_short * 2 + 1)",
    "avg(CAST(v_short AS INT) + v_byte)",
    "max(concat(v_string, '-'))",
    "sum(CASE WHEN v_boolean THEN 1 ELSE 0 END)",
    "max(ts)",
    "min(unix_micros(cast(ts AS timestamp)))",
    "stddev(v_short * 2)",
    "max_by(cast(v_int AS string), v_int)",
    "min_by(v_string IS NULL, v_string)",
    "bool_and(v_int > 0)",
    "count_if(v_double > 1)",
    "regr_avgx(v_short, v_byte)",
    "regr_count(v_short, v_byte)",
    "covar_pop(v_short, v_byte)",
    "max(struct(v_int, v_date))",
    "min(array(v_string, hex(v_binary)))",
    "max(make_dt_interval(0, 0, v_short))",
    "max_by(struct(v_long, v_small), array(v_long, v_small))",
    "min_by(map('v', v_int), v_int)",
)
BITS = ("byte", "short", "int", "long", "huge")
# Functions of floating-point results that rounding may leave anywhere near their true value, which may be zero.
MOMENTS = ("stddev", "stddev_pop", "var_samp", "var_pop")
# Rows that these have as equal have the same value, so that their order is not to be seen in the result.
ORDERED = tuple(kind for kind in POOLS if kind not in ("float", "double"))
# Of the first ones, of any rows in any order, the result is the same: where windows overlap, they are kept in panes.
ANYHOW_IN_BUFFERS = (
    "percentile(v_int, 0.5)",
    "median(v_short)",
    "percentile(v_long, 0.3, abs(v_short % 5))",
    "size(collect_set(v_string))",
    "array_sort(collect_set(v_date))",
    "approx_count_distinct(array(v_int, v_short))",
)
IN_BUFFERS = (
    *ANYHOW_IN_BUFFERS,
    "sort_array(collect_list(v_int))",
    "sort_array(collect_list(struct(v_small, v_string)))",
    "listagg(hex(v_binary), ',') WITHIN GROUP (ORDER BY hex(v_binary))",
    "mode(v_string, true)",
    "approx_percentile(v_int, array(0.1, 0.9))",
    "avg(make_dt_interval(0, 0, v_short))",
    "bit_length(string_agg(v_string))",
)
PREDICATES_OF_ROWS = (
    "v_int > 0",
    "v_string IS NOT NULL",
    "k_string <> 'ab'",
    "v_double >= 0 OR v_boolean",
    "v_short IN (0, 7)",
)
WINDOWS = (
    ("10 seconds",),
    ("10 seconds",),
    ("10 seconds", "5 seconds"),
    ("10 seconds", "4 seconds", "1 second"),
    ("7 seconds", "7 seconds", "3 seconds"),
    ("12 seconds", "2 seconds"),
    ("9 seconds", "2 seconds", "500 milliseconds"),
    ("1 minute", "20 seconds"),
)
DELAYS = (("0 seconds", 0.0), ("1500 milliseconds", 1.5), ("3 seconds", 3.0), ("10 seconds", 10.0))
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata")
STARTS = (1_000_000.0, 1_000_000.0, 1_711_846_785.0, 1_000_003.5, -25.0)
PATHS: tuple[dict[str, str], ...] = (
    {"ingest": "files"},
    {"ingest": "rows"},
    {"ingest": "files", "transport": "tcp", "merge.driverBytes": "0"},
    {"ingest": "files", "merge.driverBytes": "0"},
    {"ingest": "rows", "merge.driverBytes": "0"},
    {"ingest": "rows", "transport": "tcp", "merge.driverBytes": "1k"},
    {"ingest": "rows", "strategy": "repartition"},
    {"ingest": "files", "strategy": "repartition"},
)
SETTINGS: tuple[dict[str, str], ...] = (
    {"spark.sql.shuffle.partitions": "3"},
    {"spark.sql.shuffle.partitions": "5", "spark.slash.merge.driverBytes": "0"},
    {"spark.sql.requireAllClusterKeysForCoPartition": "false"},
    {"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
    {"spark.sql.autoBroadcastJoinThreshold": "-1"},
    {"spark.sql.caseSensitive": "true"},
    {"spark.slash.home.size": "1"},
    {"spark.slash.fold.blocks": "0"},
    {"spark.slash.fold.blocks": "1"},
)
# Several tasks read a file.
SETTINGS_OF_SPLITS = ({"spark.sql.files.maxPartitionBytes": "150"}, {"spark.sql.files.maxPartitionBytes": "33"})
RESTARTS = (
    (("spark.sql.shuffle.partitions", "1"),),
    (("spark.sql.shuffle.partitions", "2"),),
    (("spark.sql.shuffle.partitions", "4"),),
    (("spark.sql.streaming.multipleWatermarkPolicy", "min"),),
    (("spark.sql.streaming.multipleWatermarkPolicy", "max"),),
    (("spark.sql.session.timeZone", "Asia/Tokyo"),),
    (("spark.slash.merge.driverBytes", "0"),),
    (("spark.slash.transport", "tcp"),),
    (("spark.slash.home.size", "1"),),
    (("spark.slash.ingest", "rows"),),
)
# Of sessions: a gap, and how far apart times are then chosen to be at their ends.
GAPS = (
    ("'5 seconds'", 5.0),
    ("'3 seconds 500 milliseconds'", 3.5),
    ("'12 seconds'", 12.0),
    ("'1 day'", 86_400.0),
    ("concat(v_byte % 50, ' seconds')", 1.0),
    ("CASE WHEN v_int > 0 THEN '4 seconds' WHEN v_int = 0 THEN '0 seconds' ELSE '9 seconds' END", 4.0),
)
HUGE = "sum(v_huge)"
# Spark compiles the expressions of so many streams, as it does by default; it interprets those of the others.
COMPILED = 0.7
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# What bounds the times of both sides' rows: every type of join may have these conditions.
TIMES_OF_JOINS = (
    "r_ts BETWEEN ts - INTERVAL 5 SECONDS AND ts + INTERVAL 9 SECONDS",
    "r_ts >= ts AND r_ts <= ts + INTERVAL 12 SECONDS",
    "ts > r_ts + INTERVAL 3 SECONDS AND ts < r_ts + INTERVAL 20 SECONDS",
    "ts = r_ts",
    "w = r_w",
)
TIMES_OF_INNER_JOINS = ("true", "r_ts > ts", "ts <= r_ts + INTERVAL 4 SECONDS")
CONDITIONS_OF_JOINS = (
    "v_string <> 'a'",
    "r_v_int IS NOT NULL",
    "v_int >= r_v_int",
    "CAST(v_short AS INT) + r_v_short <> 7",
    "coalesce(v_string < r_v_string, k_boolean)",
)
