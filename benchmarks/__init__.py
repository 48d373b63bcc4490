"""Training steps timed beside those of other libraries, and against what the machine allows."""
