-- How often each page of a site was viewed in each ten minutes, and for how long at most: a pipeline of Spark, in SQL alone.
--
-- Nothing in it knows of pyslash. It reads the table page_views(viewed_at TIMESTAMP, page STRING, seconds BIGINT) as a
-- stream. The clause WATERMARK needs Spark 4.3. Beside it lies spark-pipeline.yml:
--
--   name: page_views
--   storage: file:///a/folder/for/checkpoints
--   libraries: [{glob: {include: page_views.sql}}]
--
-- `spark-pipelines run --remote sc://HOST:15002` runs it in a server of Spark Connect; with the setting
-- spark.plugins=io.pyslash.SlashPlugin, and pyslash's jar, that server runs it on pyslash.

CREATE STREAMING TABLE page_view_counts AS
SELECT window.start, page, count(*) AS views, max(seconds) AS longest
FROM STREAM page_views WITH (maxFilesPerTrigger = 8) WATERMARK viewed_at DELAY OF INTERVAL 1 MINUTE
GROUP BY window(viewed_at, '10 minutes'), page;
