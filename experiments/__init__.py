"""What was measured with this library."""
