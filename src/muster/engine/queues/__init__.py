"""What queues have been allocated, what they reserve, and what limits them."""
