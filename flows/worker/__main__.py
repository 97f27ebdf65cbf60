"""Entry point of the worker."""

if __name__ == "__main__":
    from flows.worker import program

    program.main()
