"""Data: images in their publishers' formats, tables, transforms and splits."""
