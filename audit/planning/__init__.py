"""Before anything is trained: what an audit could show, and whether an estimator keeps its word."""
