"""What of Hadoop stands around a query: its S3 client before a server's objects, its YARN."""
