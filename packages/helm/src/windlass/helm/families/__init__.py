"""The families of Helm services: the shapes of requests and responses, without their behaviour."""
