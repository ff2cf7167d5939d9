"""Every kind of request from every kind of original: how long it takes and how near it comes to its reference."""
