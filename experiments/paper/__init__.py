"""Reproduction of the paper: settings in TOML, results as records, tables and figures written from the records."""
