"""What a run shows and leaves behind: the ledger, the metrics, the progress, the sinks and the report."""
