"""Sentences in the language of a course. Sentences are written in English, where they are needed, and looked up when shown.

choice: which language it is. catalogue: looks a sentence up. <language>/*.po: the catalogues, one for each unit and one for
all else (docs/translating.md).
"""
