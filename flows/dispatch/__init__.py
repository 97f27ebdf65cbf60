"""Dispatch: creates flow runs for waiting job runs, recovers lost flow runs and keeps Prefect's schedules."""
