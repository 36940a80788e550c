-- The cluster on which a service runs: work on it needs the engine of that cluster. Empty for those that have none.
ALTER TABLE status ADD COLUMN cluster TEXT NOT NULL DEFAULT '';
UPDATE status SET cluster = COALESCE((
    SELECT link.target FROM resource JOIN link ON link.source = resource.parent AND link.field = 'cluster_id'
    WHERE resource.id = status.id
), (
    SELECT link.target FROM link WHERE link.source = status.id AND link.field = 'cluster_id'
), '');
