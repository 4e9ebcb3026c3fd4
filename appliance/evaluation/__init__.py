"""`appliance evaluate`: a data set read, its cases reviewed, the results kept line by line, a judge asked."""
