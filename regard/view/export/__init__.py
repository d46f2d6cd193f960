"""What leaves the library: pages of one file, notebooks, pictures for papers."""
