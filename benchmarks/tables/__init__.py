"""Public tables: SQUAD and gradient boosting with their default settings."""
