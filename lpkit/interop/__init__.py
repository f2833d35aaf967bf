"""Readers and writers of other programs' files; they execute nothing."""
