"""The paper, run again: settings as TOML, results as records, tables and figures from the records alone."""
