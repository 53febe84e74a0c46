"""Running the experiments: plans, jobs and the records they write."""
