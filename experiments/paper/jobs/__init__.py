"""Run the experiments: read plans, train and measure, write records."""
