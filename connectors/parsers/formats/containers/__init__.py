"""Files packed into files: one reader for each kind of container, one ledger for all."""
