"""What operators run on a store or beside it: demo, bench, backup, doctor."""
