"""Dispatch: creates flow runs for waiting job runs, recovers lost ones and keeps Prefect's schedules."""
