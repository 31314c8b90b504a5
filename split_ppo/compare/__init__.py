"""Runs side by side: read their folders, measure, judge, draw. Everything but `folder` and `plots` is pure."""
