"""PFC at switches: thresholds, storms, deadlocks, fairness."""
