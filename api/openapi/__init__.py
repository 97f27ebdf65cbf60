"""The OpenAPI document: made from the operations and the wire structs."""
