"""Language models, plain and masked: how they are fed, trained, measured, released and promoted."""
