"""Points in the plane: hulls, tours, triangulations, numbers."""
