"""Every planner as a `Plan`: its exact arrays, and its work units placed on the device by the model of `placement`."""
