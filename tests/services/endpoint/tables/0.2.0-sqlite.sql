-- The endpoint's tables as version 0.2.0 makes them; glossaries came a little later, without a version of their own.

CREATE TABLE api_keys (
	digest VARCHAR(64) NOT NULL,
	name VARCHAR(160) NOT NULL,
	created DOUBLE NOT NULL,
	revoked DOUBLE,
	characters BIGINT,
	requests INTEGER,
	languages JSON,
	priority INTEGER NOT NULL,
	PRIMARY KEY (digest),
	UNIQUE (name)
);

CREATE TABLE api_usage (
	digest VARCHAR(64) NOT NULL,
	period VARCHAR(16) NOT NULL,
	characters BIGINT NOT NULL,
	requests BIGINT NOT NULL,
	PRIMARY KEY (digest, period)
);

CREATE TABLE glossaries (
	id VARCHAR(36) NOT NULL,
	owner VARCHAR(64) NOT NULL,
	name TEXT NOT NULL,
	created VARCHAR(40) NOT NULL,
	PRIMARY KEY (id)
);

CREATE INDEX ix_glossaries_owner ON glossaries (owner);

CREATE TABLE translation_memory (
	id INTEGER NOT NULL,
	owner VARCHAR(160) NOT NULL,
	source VARCHAR(35) NOT NULL,
	target VARCHAR(35) NOT NULL,
	digest VARCHAR(64) NOT NULL,
	text TEXT NOT NULL,
	translation TEXT NOT NULL,
	origin VARCHAR(160) NOT NULL,
	changed DOUBLE NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (owner, source, target, digest)
);

CREATE INDEX ix_translation_memory_changed ON translation_memory (changed);

CREATE TABLE glossary_dictionaries (
	id INTEGER NOT NULL,
	glossary VARCHAR(36) NOT NULL,
	source VARCHAR(35) NOT NULL,
	target VARCHAR(35) NOT NULL,
	entries INTEGER NOT NULL,
	terms JSON NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(glossary) REFERENCES glossaries (id)
);

CREATE INDEX ix_glossary_dictionaries_glossary ON glossary_dictionaries (glossary);
