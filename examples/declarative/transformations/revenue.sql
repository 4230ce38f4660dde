-- A materialized view is computed anew in each run, from the table as it is then.
CREATE MATERIALIZED VIEW revenue AS
  SELECT product, count(*) AS orders, sum(price) AS total FROM orders GROUP BY product;
