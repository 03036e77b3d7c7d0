"""Answers as tables for people. Each file turns one kind of answer into what rich prints."""
