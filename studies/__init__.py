"""The paper's evaluation and ours: settings, runs, searches, questions beside them, and the page of results."""
