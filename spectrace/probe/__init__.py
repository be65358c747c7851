"""What runs inside the traced server: standard library only, nothing else of spectrace."""
