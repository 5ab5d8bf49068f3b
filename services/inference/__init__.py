"""The inference service: batches the positions of all clients and answers with named models."""
