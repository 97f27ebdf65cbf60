"""Reading each file format, inside of a parser child."""
