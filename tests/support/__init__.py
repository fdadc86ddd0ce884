"""What several tests share: strategies for inputs, and slow, obvious answers to compare with."""
