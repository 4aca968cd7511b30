-- The ledger of a service of version 0.2.0, as its code wrote it; made by sqlite3 .dump.

PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version VALUES('0008');
CREATE TABLE meta (
	"key" VARCHAR(32) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_meta PRIMARY KEY ("key")
);
INSERT INTO meta VALUES('prefix','j85b3');
CREATE TABLE jobs (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(40) NOT NULL, 
	owner VARCHAR(160) NOT NULL, 
	"key" VARCHAR(64), 
	verb VARCHAR(32) NOT NULL, 
	words JSON NOT NULL, 
	run VARCHAR(160) NOT NULL, 
	priority INTEGER NOT NULL, 
	"after" JSON NOT NULL, 
	follows BOOLEAN NOT NULL, 
	retries INTEGER NOT NULL, 
	max_seconds DOUBLE, 
	deadline DOUBLE, 
	state VARCHAR(16) NOT NULL, 
	version INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	submitted DOUBLE NOT NULL, 
	queued INTEGER NOT NULL, 
	changed DOUBLE NOT NULL, 
	"plan" JSON, 
	choices JSON NOT NULL, 
	cpus DOUBLE NOT NULL, 
	gpus DOUBLE NOT NULL, 
	seconds_low DOUBLE, 
	seconds_high DOUBLE, 
	attempt INTEGER NOT NULL, 
	workers INTEGER NOT NULL, 
	started DOUBLE, 
	failures INTEGER NOT NULL, 
	losses INTEGER NOT NULL, 
	spent DOUBLE NOT NULL, trace VARCHAR(55), admin BOOLEAN DEFAULT 0 NOT NULL, waiting_since DOUBLE, 
	CONSTRAINT uq_jobs_id UNIQUE (id)
);
INSERT INTO jobs VALUES(1,'j85b3-1','anna','key-a','train','["name=a"]','run a',0,'[]',0,0,NULL,NULL,'succeeded',6,'ended with code 0',1780000420.0,1,1780000900.0,'{"run_dir": "/srv/home/runs/a", "model": "phrasebook-en-de", "places": [{"path": "/srv/home/runs/a", "use": "write", "key": "name", "value": "a"}], "steps": 100}','[1]',1.0,0.0,NULL,NULL,1,0,NULL,0,0,120.0,NULL,0,1780000540.0);
INSERT INTO jobs VALUES(2,'j85b3-2','anna','key-b','train','["name=b"]','run b',10,'[]',0,0,NULL,NULL,'running',5,'attempt 1 runs',1780000960.0,2,1780001320.0,'{"run_dir": "/srv/home/runs/b", "model": null, "places": [{"path": "/srv/home/runs/b", "use": "write", "key": "name", "value": "b"}], "steps": 100}','[1]',1.0,0.0,NULL,NULL,1,1,1780001260.0,0,0,0.0,NULL,0,1780001080.0);
INSERT INTO jobs VALUES(3,'j85b3-3','anna','key-c','train','["name=c"]','run c',0,'[]',0,0,NULL,NULL,'waiting',3,'waits',1780001380.0,3,1780001500.0,'{"run_dir": "/srv/home/runs/c", "model": null, "places": [{"path": "/srv/home/runs/c", "use": "write", "key": "name", "value": "c"}], "steps": 100}','[1]',1.0,0.0,NULL,NULL,0,0,NULL,0,0,0.0,NULL,0,1780001500.0);
INSERT INTO jobs VALUES(4,'j85b3-4','anna',NULL,'evaluate','["name=c"]','',0,'["j85b3-3"]',1,0,NULL,NULL,'submitted',1,'',1780001560.0,4,1780001560.0,NULL,'[]',0.0,0.0,NULL,NULL,0,0,NULL,0,0,0.0,NULL,0,NULL);
CREATE TABLE attempts (
	job VARCHAR(40) NOT NULL, 
	number INTEGER NOT NULL, 
	workers INTEGER NOT NULL, 
	decided DOUBLE NOT NULL, 
	started DOUBLE, 
	ended DOUBLE, 
	outcome VARCHAR(16), 
	cause VARCHAR(64), 
	code INTEGER, 
	incarnation VARCHAR(160), 
	message TEXT NOT NULL, 
	lost_seconds DOUBLE NOT NULL, 
	lost_tokens INTEGER NOT NULL, kept_step INTEGER DEFAULT '0' NOT NULL, kept_seconds DOUBLE DEFAULT '0' NOT NULL, startup DOUBLE DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_attempts PRIMARY KEY (job, number), 
	CONSTRAINT fk_attempts_job_jobs FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
INSERT INTO attempts VALUES('j85b3-1',1,1,1780000600.0,1780000720.0,1780000840.0,'succeeded','end',0,NULL,'ended with code 0',0.0,0,0,0.0,0.0);
INSERT INTO attempts VALUES('j85b3-2',1,1,1780001140.0,1780001260.0,NULL,NULL,NULL,NULL,NULL,'',0.0,0,0,0.0,0.0);
CREATE TABLE changes (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at DOUBLE NOT NULL, 
	actor VARCHAR(160) NOT NULL, 
	action VARCHAR(32) NOT NULL, 
	job VARCHAR(40), 
	owner VARCHAR(160), 
	"before" VARCHAR(160), 
	"after" VARCHAR(160), 
	attempt INTEGER, 
	reason TEXT NOT NULL
);
INSERT INTO changes VALUES(1,1780000060.0,'up','token',NULL,'file:admin',NULL,NULL,NULL,'entered file:admin (admin)');
INSERT INTO changes VALUES(2,1780000180.0,'admin','token',NULL,'anna',NULL,NULL,NULL,'issued anna (submitter)');
INSERT INTO changes VALUES(3,1780000240.0,'admin','quota',NULL,'anna',NULL,NULL,NULL,'cpus=8.0 gpus=None');
INSERT INTO changes VALUES(4,1780000360.0,'anna','model',NULL,'anna',NULL,NULL,NULL,'owns phrasebook-en-de');
INSERT INTO changes VALUES(5,1780000420.0,'anna','state','j85b3-1','anna',NULL,'submitted',NULL,'submitted');
INSERT INTO changes VALUES(6,1780000480.0,'planner','state','j85b3-1','anna','submitted','planned',NULL,'planned');
INSERT INTO changes VALUES(7,1780000540.0,'planner','state','j85b3-1','anna','planned','waiting',NULL,'waits');
INSERT INTO changes VALUES(8,1780000660.0,'scheduler','state','j85b3-1','anna','waiting','starting',1,'fits');
INSERT INTO changes VALUES(9,1780000780.0,'service','state','j85b3-1','anna','starting','running',1,'attempt 1 runs');
INSERT INTO changes VALUES(10,1780000900.0,'service','state','j85b3-1','anna','running','succeeded',1,'ended with code 0');
INSERT INTO changes VALUES(11,1780000960.0,'anna','state','j85b3-2','anna',NULL,'submitted',NULL,'submitted');
INSERT INTO changes VALUES(12,1780001020.0,'planner','state','j85b3-2','anna','submitted','planned',NULL,'planned');
INSERT INTO changes VALUES(13,1780001080.0,'planner','state','j85b3-2','anna','planned','waiting',NULL,'waits');
INSERT INTO changes VALUES(14,1780001200.0,'scheduler','state','j85b3-2','anna','waiting','starting',1,'fits');
INSERT INTO changes VALUES(15,1780001320.0,'service','state','j85b3-2','anna','starting','running',1,'attempt 1 runs');
INSERT INTO changes VALUES(16,1780001380.0,'anna','state','j85b3-3','anna',NULL,'submitted',NULL,'submitted');
INSERT INTO changes VALUES(17,1780001440.0,'planner','state','j85b3-3','anna','submitted','planned',NULL,'planned');
INSERT INTO changes VALUES(18,1780001500.0,'planner','state','j85b3-3','anna','planned','waiting',NULL,'waits');
INSERT INTO changes VALUES(19,1780001560.0,'anna','state','j85b3-4','anna',NULL,'submitted',NULL,'submitted');
CREATE TABLE tokens (
	digest VARCHAR(64) NOT NULL, 
	name VARCHAR(160) NOT NULL, 
	owner VARCHAR(160) NOT NULL, 
	role VARCHAR(16) NOT NULL, 
	created DOUBLE NOT NULL, 
	revoked DOUBLE, 
	CONSTRAINT pk_tokens PRIMARY KEY (digest), 
	CONSTRAINT uq_tokens_name UNIQUE (name)
);
INSERT INTO tokens VALUES('22127012291c4699059bd483e010cfd71c0e4c6e04183b298dbf5efe2be7f78f','file:admin','file:admin','admin',1780000000.0,NULL);
INSERT INTO tokens VALUES('d79b356b5676ac5a36153aa83841bf8796c935d4020822de3daaa1446b445262','anna','anna','submitter',1780000120.0,NULL);
CREATE TABLE quotas (
	owner VARCHAR(160) NOT NULL, 
	cpus DOUBLE, 
	gpus DOUBLE, 
	CONSTRAINT pk_quotas PRIMARY KEY (owner)
);
INSERT INTO quotas VALUES('anna',8.0,NULL);
CREATE TABLE measurements (
	id INTEGER NOT NULL, 
	at DOUBLE NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	cluster VARCHAR(160) NOT NULL, 
	shape VARCHAR(64) NOT NULL, 
	verb VARCHAR(32) NOT NULL, 
	steps INTEGER NOT NULL, 
	flops DOUBLE NOT NULL, 
	workers INTEGER NOT NULL, 
	training DOUBLE NOT NULL, 
	around DOUBLE NOT NULL, 
	predicted DOUBLE, low DOUBLE, high DOUBLE, tokens DOUBLE DEFAULT '0' NOT NULL, width INTEGER DEFAULT '0' NOT NULL, layers INTEGER DEFAULT '0' NOT NULL, architecture VARCHAR(64) DEFAULT '' NOT NULL, 
	CONSTRAINT pk_measurements PRIMARY KEY (id)
);
CREATE TABLE models (
	name VARCHAR(160) NOT NULL, 
	owner VARCHAR(160) NOT NULL, 
	since DOUBLE NOT NULL, 
	CONSTRAINT pk_models PRIMARY KEY (name)
);
INSERT INTO models VALUES('phrasebook-en-de','anna',1780000300.0);
CREATE TABLE places (
	path TEXT NOT NULL, 
	owner VARCHAR(160) NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	CONSTRAINT pk_places PRIMARY KEY (path)
);
INSERT INTO places VALUES('/srv/home/runs/a','anna','j85b3-1');
INSERT INTO places VALUES('/srv/home/runs/b','anna','j85b3-2');
INSERT INTO places VALUES('/srv/home/runs/c','anna','j85b3-3');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('changes',19);
INSERT INTO sqlite_sequence VALUES('jobs',4);
CREATE INDEX ix_jobs_owner_seq ON jobs (owner, seq);
CREATE UNIQUE INDEX ix_jobs_owner_key ON jobs (owner, "key");
CREATE INDEX ix_changes_job_id ON changes (job, id);
CREATE INDEX ix_measurements_cluster_shape ON measurements (cluster, shape);
CREATE TRIGGER changes_refuse_update BEFORE UPDATE ON changes BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
CREATE TRIGGER changes_refuse_delete BEFORE DELETE ON changes BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
CREATE INDEX ix_jobs_state_seq_version ON jobs (state, seq, version);
CREATE INDEX ix_jobs_owner_state_seq ON jobs (owner, state, seq);
CREATE INDEX ix_jobs_run ON jobs (run);
CREATE INDEX ix_attempts_ended ON attempts (ended);
COMMIT;
