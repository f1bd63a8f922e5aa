"""What a memory is: its fields, types, labels and items."""
