"""The families of Terraform services: what clients send and read, without any of what follows from it."""
