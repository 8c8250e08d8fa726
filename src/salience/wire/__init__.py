"""What passes between surfaces and client: requests, answers, verbs and errors, in JSON, with their schemas."""
