"""The figures of the course: what they show, and the script that attaches them to the notebooks."""
