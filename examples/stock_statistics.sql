-- The same statistics as in stock_statistics.py, in SQL: for each stock the lowest and the mean price of five
-- seconds, new every second.
--
--   moldau topics create stocks
--   moldau pipeline run examples/stock_statistics.sql

-- A topic under a name, with typed columns. A trade may come ten seconds late.
CREATE SOURCE trades (ticker STRING, ask_price DOUBLE, ask_size INT, time TIMESTAMP)
  WITH (topic = 'stocks', value_format = 'json', watermark = 'time 10 seconds');

-- A query under a name, for others to use.
CREATE VIEW windows AS
  SELECT ticker, window, min(ask_price) AS min_price, count(*) AS trades, avg(ask_price) AS average_price
  FROM trades
  GROUP BY ticker, window(time, '5 seconds', '1 second');

-- A query that is written to a topic for as long as the pipeline runs.
CREATE STREAM statistics
  WITH (topic = 'stockstats-sql', key = 'ticker_window', value_format = 'json', mode = 'update') AS
  SELECT concat_ws('@', ticker, date_format(window.start, 'HH:mm:ss')) AS ticker_window,
         ticker, window.start AS start, min_price, trades, average_price
  FROM windows;
