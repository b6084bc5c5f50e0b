"""How often each page of a site was viewed in each ten minutes, and for how long at most: in SQL, from table to table.

An ordinary Structured Streaming job: nothing in it knows of pyslash. SQL has the query; what reads a table as a stream
and what starts the query are two calls around it.

    spark-submit examples/page_views_sql.py "$PWD/views" "$PWD/counts" checkpoint/ 8
    spark-submit --conf spark.plugins=io.pyslash.SlashPlugin --jars "$(pyslash jar)" examples/page_views_sql.py ...

Its arguments: the folders of its input (Parquet), its result and its checkpoint, and how many files are a micro-batch.
The folders of tables are absolute: Spark takes others to lie in its warehouse.
"""

import sys

from pyspark.sql import SparkSession

TABLE = """
    CREATE TABLE IF NOT EXISTS page_views (viewed_at TIMESTAMP, page STRING, seconds BIGINT) USING parquet LOCATION '{}'
"""
COUNTS = """
    SELECT window.start, page, count(*) AS views, max(seconds) AS longest
    FROM page_views_as_they_come
    GROUP BY window(viewed_at, '10 minutes'), page
"""


def main(source, output, checkpoint, files):
    spark = SparkSession.builder.appName("page views").getOrCreate()
    spark.sql(TABLE.format(source))
    views = spark.readStream.option("maxFilesPerTrigger", files).table("page_views")
    views.withWatermark("viewed_at", "1 minute").createOrReplaceTempView("page_views_as_they_come")
    query = (
        spark.sql(COUNTS)
        .writeStream.option("path", output)
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
        .trigger(availableNow=True)
        .toTable("page_view_counts")
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
