"""Tests of snapviz."""
