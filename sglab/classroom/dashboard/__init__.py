"""The instructor's dashboard: who is where, and which wrong answers are common, live from the labs' stores."""
