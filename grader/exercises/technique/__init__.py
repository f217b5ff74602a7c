"""What the technique of several exercises has in common. Students get these files: no cases and no right results here."""
