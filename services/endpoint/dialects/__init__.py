"""The dialects of other translation services, a file each: their routes, parameters, answers and errors."""
