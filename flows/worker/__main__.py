"""Starts the worker. Imports nothing else: each flow run's process imports this module anew."""

if __name__ == "__main__":
    from flows.worker import program

    program.main()
