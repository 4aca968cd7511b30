-- The ledger of a service of version 0.2.0, as its code wrote it; made by pg_dump --inserts --no-owner.

CREATE FUNCTION public.changes_refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the audit trail is append-only'; END $$;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.attempts (
    job character varying(40) NOT NULL,
    number integer NOT NULL,
    workers integer NOT NULL,
    decided double precision NOT NULL,
    started double precision,
    ended double precision,
    outcome character varying(16),
    cause character varying(64),
    code integer,
    incarnation character varying(160),
    message text NOT NULL,
    lost_seconds double precision NOT NULL,
    lost_tokens integer NOT NULL,
    kept_step integer DEFAULT 0 NOT NULL,
    kept_seconds double precision DEFAULT '0'::double precision NOT NULL,
    startup double precision DEFAULT '0'::double precision NOT NULL
);
CREATE TABLE public.changes (
    id integer NOT NULL,
    at double precision NOT NULL,
    actor character varying(160) NOT NULL,
    action character varying(32) NOT NULL,
    job character varying(40),
    owner character varying(160),
    before character varying(160),
    after character varying(160),
    attempt integer,
    reason text NOT NULL
);
CREATE SEQUENCE public.changes_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.changes_id_seq OWNED BY public.changes.id;
CREATE TABLE public.jobs (
    seq integer NOT NULL,
    id character varying(40) NOT NULL,
    owner character varying(160) NOT NULL,
    key character varying(64),
    verb character varying(32) NOT NULL,
    words json NOT NULL,
    run character varying(160) NOT NULL,
    priority integer NOT NULL,
    after json NOT NULL,
    follows boolean NOT NULL,
    retries integer NOT NULL,
    max_seconds double precision,
    deadline double precision,
    state character varying(16) NOT NULL,
    version integer NOT NULL,
    reason text NOT NULL,
    submitted double precision NOT NULL,
    queued integer NOT NULL,
    changed double precision NOT NULL,
    plan json,
    choices json NOT NULL,
    cpus double precision NOT NULL,
    gpus double precision NOT NULL,
    seconds_low double precision,
    seconds_high double precision,
    attempt integer NOT NULL,
    workers integer NOT NULL,
    started double precision,
    failures integer NOT NULL,
    losses integer NOT NULL,
    spent double precision NOT NULL,
    trace character varying(55),
    admin boolean DEFAULT false NOT NULL,
    waiting_since double precision
);
CREATE SEQUENCE public.jobs_seq_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.jobs_seq_seq OWNED BY public.jobs.seq;
CREATE TABLE public.measurements (
    id integer NOT NULL,
    at double precision NOT NULL,
    job character varying(40) NOT NULL,
    cluster character varying(160) NOT NULL,
    shape character varying(64) NOT NULL,
    verb character varying(32) NOT NULL,
    steps integer NOT NULL,
    flops double precision NOT NULL,
    workers integer NOT NULL,
    training double precision NOT NULL,
    around double precision NOT NULL,
    predicted double precision,
    low double precision,
    high double precision,
    tokens double precision DEFAULT '0'::double precision NOT NULL,
    width integer DEFAULT 0 NOT NULL,
    layers integer DEFAULT 0 NOT NULL,
    architecture character varying(64) DEFAULT ''::character varying NOT NULL
);
CREATE SEQUENCE public.measurements_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.measurements_id_seq OWNED BY public.measurements.id;
CREATE TABLE public.meta (
    key character varying(32) NOT NULL,
    value text NOT NULL
);
CREATE TABLE public.models (
    name character varying(160) NOT NULL,
    owner character varying(160) NOT NULL,
    since double precision NOT NULL
);
CREATE TABLE public.places (
    path text NOT NULL COLLATE pg_catalog."C",
    owner character varying(160) NOT NULL,
    job character varying(40) NOT NULL
);
CREATE TABLE public.quotas (
    owner character varying(160) NOT NULL,
    cpus double precision,
    gpus double precision
);
CREATE TABLE public.tokens (
    digest character varying(64) NOT NULL,
    name character varying(160) NOT NULL,
    owner character varying(160) NOT NULL,
    role character varying(16) NOT NULL,
    created double precision NOT NULL,
    revoked double precision
);
ALTER TABLE ONLY public.changes ALTER COLUMN id SET DEFAULT nextval('public.changes_id_seq'::regclass);
ALTER TABLE ONLY public.jobs ALTER COLUMN seq SET DEFAULT nextval('public.jobs_seq_seq'::regclass);
ALTER TABLE ONLY public.measurements ALTER COLUMN id SET DEFAULT nextval('public.measurements_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0008');
INSERT INTO public.attempts VALUES ('j43eb-1', 1, 1, 1780000600, 1780000720, 1780000840, 'succeeded', 'end', 0, NULL, 'ended with code 0', 0, 0, 0, 0, 0);
INSERT INTO public.attempts VALUES ('j43eb-2', 1, 1, 1780001140, 1780001260, NULL, NULL, NULL, NULL, NULL, '', 0, 0, 0, 0, 0);
INSERT INTO public.changes VALUES (1, 1780000060, 'up', 'token', NULL, 'file:admin', NULL, NULL, NULL, 'entered file:admin (admin)');
INSERT INTO public.changes VALUES (2, 1780000180, 'admin', 'token', NULL, 'anna', NULL, NULL, NULL, 'issued anna (submitter)');
INSERT INTO public.changes VALUES (3, 1780000240, 'admin', 'quota', NULL, 'anna', NULL, NULL, NULL, 'cpus=8.0 gpus=None');
INSERT INTO public.changes VALUES (4, 1780000360, 'anna', 'model', NULL, 'anna', NULL, NULL, NULL, 'owns phrasebook-en-de');
INSERT INTO public.changes VALUES (5, 1780000420, 'anna', 'state', 'j43eb-1', 'anna', NULL, 'submitted', NULL, 'submitted');
INSERT INTO public.changes VALUES (6, 1780000480, 'planner', 'state', 'j43eb-1', 'anna', 'submitted', 'planned', NULL, 'planned');
INSERT INTO public.changes VALUES (7, 1780000540, 'planner', 'state', 'j43eb-1', 'anna', 'planned', 'waiting', NULL, 'waits');
INSERT INTO public.changes VALUES (8, 1780000660, 'scheduler', 'state', 'j43eb-1', 'anna', 'waiting', 'starting', 1, 'fits');
INSERT INTO public.changes VALUES (9, 1780000780, 'service', 'state', 'j43eb-1', 'anna', 'starting', 'running', 1, 'attempt 1 runs');
INSERT INTO public.changes VALUES (10, 1780000900, 'service', 'state', 'j43eb-1', 'anna', 'running', 'succeeded', 1, 'ended with code 0');
INSERT INTO public.changes VALUES (11, 1780000960, 'anna', 'state', 'j43eb-2', 'anna', NULL, 'submitted', NULL, 'submitted');
INSERT INTO public.changes VALUES (12, 1780001020, 'planner', 'state', 'j43eb-2', 'anna', 'submitted', 'planned', NULL, 'planned');
INSERT INTO public.changes VALUES (13, 1780001080, 'planner', 'state', 'j43eb-2', 'anna', 'planned', 'waiting', NULL, 'waits');
INSERT INTO public.changes VALUES (14, 1780001200, 'scheduler', 'state', 'j43eb-2', 'anna', 'waiting', 'starting', 1, 'fits');
INSERT INTO public.changes VALUES (15, 1780001320, 'service', 'state', 'j43eb-2', 'anna', 'starting', 'running', 1, 'attempt 1 runs');
INSERT INTO public.changes VALUES (16, 1780001380, 'anna', 'state', 'j43eb-3', 'anna', NULL, 'submitted', NULL, 'submitted');
INSERT INTO public.changes VALUES (17, 1780001440, 'planner', 'state', 'j43eb-3', 'anna', 'submitted', 'planned', NULL, 'planned');
INSERT INTO public.changes VALUES (18, 1780001500, 'planner', 'state', 'j43eb-3', 'anna', 'planned', 'waiting', NULL, 'waits');
INSERT INTO public.changes VALUES (19, 1780001560, 'anna', 'state', 'j43eb-4', 'anna', NULL, 'submitted', NULL, 'submitted');
INSERT INTO public.jobs VALUES (1, 'j43eb-1', 'anna', 'key-a', 'train', '["name=a"]', 'run a', 0, '[]', false, 0, NULL, NULL, 'succeeded', 6, 'ended with code 0', 1780000420, 1, 1780000900, '{"run_dir": "/srv/home/runs/a", "model": "phrasebook-en-de", "places": [{"path": "/srv/home/runs/a", "use": "write", "key": "name", "value": "a"}], "steps": 100}', '[1]', 1, 0, NULL, NULL, 1, 0, NULL, 0, 0, 120, NULL, false, 1780000540);
INSERT INTO public.jobs VALUES (2, 'j43eb-2', 'anna', 'key-b', 'train', '["name=b"]', 'run b', 10, '[]', false, 0, NULL, NULL, 'running', 5, 'attempt 1 runs', 1780000960, 2, 1780001320, '{"run_dir": "/srv/home/runs/b", "model": null, "places": [{"path": "/srv/home/runs/b", "use": "write", "key": "name", "value": "b"}], "steps": 100}', '[1]', 1, 0, NULL, NULL, 1, 1, 1780001260, 0, 0, 0, NULL, false, 1780001080);
INSERT INTO public.jobs VALUES (3, 'j43eb-3', 'anna', 'key-c', 'train', '["name=c"]', 'run c', 0, '[]', false, 0, NULL, NULL, 'waiting', 3, 'waits', 1780001380, 3, 1780001500, '{"run_dir": "/srv/home/runs/c", "model": null, "places": [{"path": "/srv/home/runs/c", "use": "write", "key": "name", "value": "c"}], "steps": 100}', '[1]', 1, 0, NULL, NULL, 0, 0, NULL, 0, 0, 0, NULL, false, 1780001500);
INSERT INTO public.jobs VALUES (4, 'j43eb-4', 'anna', NULL, 'evaluate', '["name=c"]', '', 0, '["j43eb-3"]', true, 0, NULL, NULL, 'submitted', 1, '', 1780001560, 4, 1780001560, NULL, '[]', 0, 0, NULL, NULL, 0, 0, NULL, 0, 0, 0, NULL, false, NULL);
INSERT INTO public.meta VALUES ('prefix', 'j43eb');
INSERT INTO public.models VALUES ('phrasebook-en-de', 'anna', 1780000300);
INSERT INTO public.places VALUES ('/srv/home/runs/a', 'anna', 'j43eb-1');
INSERT INTO public.places VALUES ('/srv/home/runs/b', 'anna', 'j43eb-2');
INSERT INTO public.places VALUES ('/srv/home/runs/c', 'anna', 'j43eb-3');
INSERT INTO public.quotas VALUES ('anna', 8, NULL);
INSERT INTO public.tokens VALUES ('22127012291c4699059bd483e010cfd71c0e4c6e04183b298dbf5efe2be7f78f', 'file:admin', 'file:admin', 'admin', 1780000000, NULL);
INSERT INTO public.tokens VALUES ('b3a7d3257ccc932f5c77b33f2f5d1f2175c7037c639b822cc1f07daa347109ed', 'anna', 'anna', 'submitter', 1780000120, NULL);
SELECT pg_catalog.setval('public.changes_id_seq', 19, true);
SELECT pg_catalog.setval('public.jobs_seq_seq', 4, true);
SELECT pg_catalog.setval('public.measurements_id_seq', 1, false);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT pk_attempts PRIMARY KEY (job, number);
ALTER TABLE ONLY public.changes
    ADD CONSTRAINT pk_changes PRIMARY KEY (id);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT pk_jobs PRIMARY KEY (seq);
ALTER TABLE ONLY public.measurements
    ADD CONSTRAINT pk_measurements PRIMARY KEY (id);
ALTER TABLE ONLY public.meta
    ADD CONSTRAINT pk_meta PRIMARY KEY (key);
ALTER TABLE ONLY public.models
    ADD CONSTRAINT pk_models PRIMARY KEY (name);
ALTER TABLE ONLY public.places
    ADD CONSTRAINT pk_places PRIMARY KEY (path);
ALTER TABLE ONLY public.quotas
    ADD CONSTRAINT pk_quotas PRIMARY KEY (owner);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT pk_tokens PRIMARY KEY (digest);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT uq_jobs_id UNIQUE (id);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT uq_tokens_name UNIQUE (name);
CREATE INDEX ix_attempts_ended ON public.attempts USING btree (ended);
CREATE INDEX ix_changes_job_id ON public.changes USING btree (job, id);
CREATE UNIQUE INDEX ix_jobs_owner_key ON public.jobs USING btree (owner, key);
CREATE INDEX ix_jobs_owner_seq ON public.jobs USING btree (owner, seq);
CREATE INDEX ix_jobs_owner_state_seq ON public.jobs USING btree (owner, state, seq);
CREATE INDEX ix_jobs_run ON public.jobs USING btree (run);
CREATE INDEX ix_jobs_state_seq_version ON public.jobs USING btree (state, seq, version);
CREATE INDEX ix_measurements_cluster_shape ON public.measurements USING btree (cluster, shape);
CREATE TRIGGER changes_refuse BEFORE DELETE OR UPDATE OR TRUNCATE ON public.changes FOR EACH STATEMENT EXECUTE FUNCTION public.changes_refuse();
ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT fk_attempts_job_jobs FOREIGN KEY (job) REFERENCES public.jobs(id) ON DELETE CASCADE;
