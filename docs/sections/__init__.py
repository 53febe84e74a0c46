"""Generated sections of README.md and docs/, one module per page or subject."""
